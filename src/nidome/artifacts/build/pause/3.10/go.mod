module nidome.build/pause

go 1.26.0
