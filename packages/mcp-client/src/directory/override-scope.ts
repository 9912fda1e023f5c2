import { sharedStorage } from '@x/internal'
import type { ServerOverrides } from './server-override.ts'

const scope = sharedStorage<ServerOverrides>('mcp-client.overrides.1')

/**
 * Runs `fn` with overrides for the servers that are looked up in it, whatever they were looked up by.
 * They come in place of those of the environment. A scope inside another one replaces it, with a warning
 * of the process, because that is seldom meant.
 *
 * A client looks its server up at the first call of a life: in the scope of that call.
 */
export function withOverrides<T>(overrides: ServerOverrides, fn: () => T): T {
  if (scope.getStore() !== undefined) {
    process.emitWarning(
      'withOverrides() was called inside withOverrides(): the overrides outside do not count in it',
      { type: 'McpServerOverridesWarning', code: 'MCP_NESTED_OVERRIDES' },
    )
  }
  return scope.run(overrides, fn)
}

export function currentOverrides(): ServerOverrides | undefined {
  return scope.getStore()
}
