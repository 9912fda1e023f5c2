import { assertRuntime } from '@x/internal'

assertRuntime('@x/langchain-mcp')
