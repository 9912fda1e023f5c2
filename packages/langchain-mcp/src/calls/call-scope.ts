import type { RunnableConfig } from '@langchain/core/runnables'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import { isRecord } from '@x/internal'
import { McpClientError } from '@x/mcp-client'
import type { CallContext } from './call-context.ts'
import { graphStoreFrom } from '../sessions/graph-store.ts'
import type { GraphStore } from '../sessions/graph-store.ts'
import type { SessionMode } from '../sessions/session-mode.ts'

/** Names whoever a call is made for. */
export type PrincipalOf = (config: RunnableConfig) => string

const NOBODY: CallContext = { scope: {}, store: undefined, configurable: {} }

/** Keys of LangGraph's own in `configurable`: the state of a run, not something about the caller. */
const INTERNAL = /^__pregel_|^checkpoint_/

/** The config of the run that this code is executing in, if it is in one. */
export function ambientConfig(): RunnableConfig | undefined {
  const config: unknown = AsyncLocalStorageProviderSingleton.getRunnableConfig()
  return isRecord(config) ? config : undefined
}

/**
 * Whose session serves a call, by the call's own config alone. Without a config it is nobody's: a list
 * that is asked for outside any run.
 *
 * @throws McpClientError `CONFIG` if the function for the principal names nobody; what it throws
 */
export function callContextFrom(
  config: RunnableConfig | undefined,
  { mode, principal }: { readonly mode: SessionMode; readonly principal: PrincipalOf | undefined },
): CallContext {
  if (config === undefined) return NOBODY
  const { configurable = {} } = config
  return {
    scope: {
      principal: principal === undefined ? undefined : principalFrom(principal(config)),
      thread: mode === 'thread' ? threadFrom(configurable['thread_id']) : undefined,
    },
    store: storeIn(config) ?? storeIn(ambientConfig()),
    configurable: Object.fromEntries(
      Object.entries(configurable).filter(([key]) => !INTERNAL.test(key)),
    ),
  }
}

function storeIn(config: RunnableConfig | undefined): GraphStore | undefined {
  return config !== undefined && 'store' in config ? graphStoreFrom(config.store) : undefined
}

/** Nobody's session must never serve somebody, so a name that is missing is no name for all. */
function principalFrom(name: unknown): string {
  if (typeof name === 'string' && name !== '') return name
  throw new McpClientError(
    'CONFIG',
    'The function `principal` gave no name for a call: it must return a string that is not empty',
    { server: 'all', outcome: 'not-executed' },
  )
}

function threadFrom(id: unknown): string | undefined {
  return typeof id === 'string' || typeof id === 'number' ? String(id) : undefined
}
