-- argv: tty
-- answers: tty, title, columns, rows, busy, in front, idle seconds, visible text
on run argv
	set wanted to item 1 of argv
	set fieldEnd to character id 31
	set idleSeconds to do shell script "/usr/sbin/ioreg -c IOHIDSystem -r -k HIDIdleTime | /usr/bin/awk '/HIDIdleTime/ {printf \"%d\", $NF / 1000000000; exit}'"
	if application id "com.apple.Terminal" is not running then error "Terminal is not running" number -600
	with timeout of 8 seconds
		tell application id "com.apple.Terminal"
			repeat with w from 1 to count of windows
				repeat with t from 1 to count of tabs of window w
					if tty of tab t of window w is wanted then
						set isFront to frontmost and (frontmost of window w) and (selected of tab t of window w)
						set shown to contents of tab t of window w
						return wanted & fieldEnd & (custom title of tab t of window w) & fieldEnd & ((number of columns of tab t of window w) as text) & fieldEnd & ((number of rows of tab t of window w) as text) & fieldEnd & "false" & fieldEnd & (isFront as text) & fieldEnd & idleSeconds & fieldEnd & shown & fieldEnd
					end if
				end repeat
			end repeat
		end tell
	end timeout
	error "there is no such tab" number -1728
end run
