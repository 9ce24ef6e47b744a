-- argv: session id, a file with the visible text that must stand there, seconds of quiet if in front, text, yes for Return
-- answers: done; or refused and why (value, typing). The check and the text are one script
on run argv
	set wanted to item 1 of argv
	set fieldEnd to character id 31
	set idleSeconds to (do shell script "/usr/sbin/ioreg -c IOHIDSystem -r -k HIDIdleTime | /usr/bin/awk '/HIDIdleTime/ {printf \"%d\", $NF / 1000000000; exit}'") as integer
	try
		set expected to read (POSIX file (item 2 of argv)) as «class utf8»
	on error number -39
		set expected to ""
	end try
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
							if isFront and frontSession is wanted and idleSeconds < ((item 3 of argv) as integer) then return "refused" & fieldEnd & "typing" & fieldEnd
							tell aSession
								set shown to contents
								considering case, diacriticals, hyphens, punctuation and white space
									if shown is not expected then return "refused" & fieldEnd & "value" & fieldEnd
								end considering
								if item 5 of argv is "yes" then
									write text (item 4 of argv) newline yes
								else
									write text (item 4 of argv) newline no
								end if
							end tell
							return "done" & fieldEnd
						end if
					end repeat
				end repeat
			end repeat
		end tell
	end timeout
	error "there is no such session" number -1728
end run
