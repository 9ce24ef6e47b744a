-- argv: pid
-- answers: front pid, idle seconds, sheets and dialogs, role of the focused element, its placeholder, its value
on run argv
	set wanted to (item 1 of argv) as integer
	set fieldEnd to character id 31
	set idleSeconds to do shell script "/usr/sbin/ioreg -c IOHIDSystem -r -k HIDIdleTime | /usr/bin/awk '/HIDIdleTime/ {printf \"%d\", $NF / 1000000000; exit}'"
	set dialogs to 0
	set itsRole to ""
	set itsPlaceholder to ""
	set itsValue to ""
	with timeout of 8 seconds
		tell application "System Events"
			set frontPid to unix id of (first application process whose frontmost is true)
			set theProcess to first application process whose unix id is wanted
			try
				set value of attribute "AXManualAccessibility" of theProcess to true
			end try
			repeat with aWindow in (every window of theProcess)
				set dialogs to dialogs + (count of sheets of aWindow)
				set itsSubrole to subrole of aWindow
				if itsSubrole is "AXDialog" or itsSubrole is "AXSystemDialog" then set dialogs to dialogs + 1
			end repeat
			try
				set focusedElement to value of attribute "AXFocusedUIElement" of theProcess
				set itsRole to role of focusedElement
				set itsValue to value of attribute "AXValue" of focusedElement
				if itsValue is missing value then set itsValue to ""
				try
					set itsPlaceholder to value of attribute "AXPlaceholderValue" of focusedElement
					if itsPlaceholder is missing value then set itsPlaceholder to ""
				end try
			on error number problem
				if problem is -25211 or problem is -1743 then error number problem
				set itsRole to ""
			end try
		end tell
	end timeout
	return (frontPid as text) & fieldEnd & idleSeconds & fieldEnd & (dialogs as text) & fieldEnd & itsRole & fieldEnd & itsPlaceholder & fieldEnd & itsValue & fieldEnd
end run
