module acker.example/acker

go 1.25
