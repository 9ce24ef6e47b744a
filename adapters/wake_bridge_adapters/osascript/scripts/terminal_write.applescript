-- argv: tty, a file with the visible text that must stand there, seconds of quiet if in front, text
-- answers: done; or refused and why (value, typing). Return always follows the text
on run argv
	set wanted to item 1 of argv
	set fieldEnd to character id 31
	set idleSeconds to (do shell script "/usr/sbin/ioreg -c IOHIDSystem -r -k HIDIdleTime | /usr/bin/awk '/HIDIdleTime/ {printf \"%d\", $NF / 1000000000; exit}'") as integer
	try
		set expected to read (POSIX file (item 2 of argv)) as «class utf8»
	on error number -39
		set expected to ""
	end try
	if application id "com.apple.Terminal" is not running then error "Terminal is not running" number -600
	with timeout of 8 seconds
		tell application id "com.apple.Terminal"
			repeat with w from 1 to count of windows
				repeat with t from 1 to count of tabs of window w
					if tty of tab t of window w is wanted then
						if idleSeconds < ((item 3 of argv) as integer) then return "refused" & fieldEnd & "typing" & fieldEnd
						set shown to contents of tab t of window w
						considering case, diacriticals, hyphens, punctuation and white space
							if shown is not expected then return "refused" & fieldEnd & "value" & fieldEnd
						end considering
						do script (item 4 of argv) in tab t of window w
						return "done" & fieldEnd
					end if
				end repeat
			end repeat
		end tell
	end timeout
	error "there is no such tab" number -1728
end run
