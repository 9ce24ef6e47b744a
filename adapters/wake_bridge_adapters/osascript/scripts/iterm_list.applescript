-- answers, per session: id, tty, title. Starts nothing
on run argv
	set fieldEnd to character id 31
	set found to {}
	if application id "com.googlecode.iterm2" is running then
		with timeout of 8 seconds
			tell application id "com.googlecode.iterm2"
				repeat with aWindow in windows
					repeat with aTab in tabs of aWindow
						repeat with aSession in sessions of aTab
							tell aSession to set end of found to (unique id) & fieldEnd & tty & fieldEnd & name & fieldEnd
						end repeat
					end repeat
				end repeat
			end tell
		end timeout
	end if
	set AppleScript's text item delimiters to character id 30
	return found as text
end run
