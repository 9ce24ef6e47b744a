-- argv: session id
-- answers: tty, title, columns, rows, busy, in front, idle seconds, visible text
on run argv
	set wanted to item 1 of argv
	set fieldEnd to character id 31
	set idleSeconds to do shell script "/usr/sbin/ioreg -c IOHIDSystem -r -k HIDIdleTime | /usr/bin/awk '/HIDIdleTime/ {printf \"%d\", $NF / 1000000000; exit}'"
	if application id "com.googlecode.iterm2" is not running then error "iTerm2 is not running" number -600
	with timeout of 8 seconds
		tell application id "com.googlecode.iterm2"
			set isFront to frontmost
			set frontSession to ""
			try
				set frontSession to unique id of current session of current window
			end try
			repeat with aWindow in windows
				repeat with aTab in tabs of aWindow
					repeat with aSession in sessions of aTab
						if unique id of aSession is wanted then
							tell aSession
								set shown to contents
								return tty & fieldEnd & name & fieldEnd & (columns as text) & fieldEnd & (rows as text) & fieldEnd & (is processing as text) & fieldEnd & ((isFront and frontSession is wanted) as text) & fieldEnd & idleSeconds & fieldEnd & shown & fieldEnd
							end tell
						end if
					end repeat
				end repeat
			end repeat
		end tell
	end timeout
	error "there is no such session" number -1728
end run
