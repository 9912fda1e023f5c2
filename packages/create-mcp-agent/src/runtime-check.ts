import { assertRuntime } from '@x/internal'

assertRuntime('@x/create-mcp-agent')
