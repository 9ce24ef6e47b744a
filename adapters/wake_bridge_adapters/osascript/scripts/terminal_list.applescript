-- answers, per tab: tty (it is the id), tty, title. Starts nothing
on run argv
	set fieldEnd to character id 31
	set found to {}
	if application id "com.apple.Terminal" is running then
		with timeout of 8 seconds
			tell application id "com.apple.Terminal"
				repeat with w from 1 to count of windows
					repeat with t from 1 to count of tabs of window w
						set itsTty to tty of tab t of window w
						set end of found to itsTty & fieldEnd & itsTty & fieldEnd & (custom title of tab t of window w) & fieldEnd
					end repeat
				end repeat
			end tell
		end timeout
	end if
	set AppleScript's text item delimiters to character id 30
	return found as text
end run
