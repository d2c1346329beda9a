"""What a test of a program that uses Tidegate needs: time that is virtual, services that do as they are told, events."""
