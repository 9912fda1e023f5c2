import { assertRuntime } from '@x/internal'

assertRuntime('@x/mcp-testing')
