"""Thousands of fits, beside what people fit one by one."""
