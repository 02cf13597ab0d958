"""Messages to people about findings, by mail, chat or webhook: an effector that follows a pool's log."""
