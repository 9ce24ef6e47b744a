-- argv: pid, paste|return|tab, the tab's key, a file with the value that must stand in the focused element (-: not asked)
-- answers: done; or refused and why (focus, dialog, value). The check and the key are one script
on run argv
	set wanted to (item 1 of argv) as integer
	set theKey to item 2 of argv
	set fieldEnd to character id 31
	with timeout of 8 seconds
		set isAsked to item 4 of argv is not "-"
		set expected to ""
		if isAsked then
			try
				set expected to read (POSIX file (item 4 of argv)) as «class utf8»
			on error number -39
				set expected to ""
			end try
		end if
		tell application "System Events"
			if unix id of (first application process whose frontmost is true) is not wanted then return "refused" & fieldEnd & "focus" & fieldEnd
			set theProcess to first application process whose unix id is wanted
			repeat with aWindow in (every window of theProcess)
				set itsSubrole to subrole of aWindow
				if (count of sheets of aWindow) > 0 or itsSubrole is "AXDialog" or itsSubrole is "AXSystemDialog" then return "refused" & fieldEnd & "dialog" & fieldEnd
			end repeat
			if isAsked then
				set itsValue to value of attribute "AXValue" of (value of attribute "AXFocusedUIElement" of theProcess)
				if itsValue is missing value then set itsValue to ""
				considering case, diacriticals, hyphens, punctuation and white space
					if itsValue is not expected then return "refused" & fieldEnd & "value" & fieldEnd
				end considering
			end if
			if unix id of (first application process whose frontmost is true) is not wanted then return "refused" & fieldEnd & "focus" & fieldEnd
			if theKey is "paste" then
				keystroke "v" using command down
			else if theKey is "return" then
				key code 36
			else
				keystroke (item 3 of argv) using command down
			end if
		end tell
	end timeout
	return "done" & fieldEnd
end run
