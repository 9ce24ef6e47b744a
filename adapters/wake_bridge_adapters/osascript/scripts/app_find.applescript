-- argv: an application's name or bundle identifier
-- answers, per process: pid, process name, bundle identifier
on run argv
	set wanted to item 1 of argv
	set fieldEnd to character id 31
	set found to {}
	with timeout of 8 seconds
		tell application "System Events"
			repeat with candidate in (every application process whose background only is false)
				set itsName to name of candidate
				set itsTitle to displayed name of candidate
				set itsBundle to bundle identifier of candidate
				if itsBundle is missing value then set itsBundle to ""
				if {itsName, itsTitle, itsBundle} contains {wanted} then
					set end of found to ((unix id of candidate) as text) & fieldEnd & itsName & fieldEnd & itsBundle & fieldEnd
				end if
			end repeat
		end tell
	end timeout
	set AppleScript's text item delimiters to character id 30
	return found as text
end run
