module nidome.test/probe

go 1.24
