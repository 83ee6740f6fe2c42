"""Resource kinds: each module holds a kind's dataclass, its observation and its apply side by side."""
