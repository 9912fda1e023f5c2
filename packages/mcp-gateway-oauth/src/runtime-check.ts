import { assertRuntime } from '@x/internal'

assertRuntime('@x/mcp-gateway-oauth')
