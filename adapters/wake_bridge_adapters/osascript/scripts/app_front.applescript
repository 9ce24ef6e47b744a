-- argv: pid; the pid that must be in front now
-- brings the process to the front; answers the front pid afterwards
on run argv
	set wanted to (item 1 of argv) as integer
	set mustBe to (item 2 of argv) as integer
	set frontPid to 0
	with timeout of 8 seconds
		tell application "System Events"
			set frontPid to unix id of (first application process whose frontmost is true)
			if frontPid is mustBe then
				set frontmost of (first application process whose unix id is wanted) to true
				repeat 12 times
					set frontPid to unix id of (first application process whose frontmost is true)
					if frontPid is wanted then exit repeat
					delay 0.25
				end repeat
			end if
		end tell
	end timeout
	return (frontPid as text) & (character id 31)
end run
