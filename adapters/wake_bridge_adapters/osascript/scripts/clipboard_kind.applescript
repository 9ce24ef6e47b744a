-- answers what the clipboard holds: empty, text, or other
on run argv
	with timeout of 8 seconds
		set kinds to clipboard info
	end timeout
	if (count of kinds) is 0 then return "empty" & (character id 31)
	repeat with oneKind in kinds
		if {«class utf8», «class ut16», string, Unicode text, «class RTF », «class HTML»} does not contain {item 1 of oneKind} then return "other" & (character id 31)
	end repeat
	return "text" & (character id 31)
end run
