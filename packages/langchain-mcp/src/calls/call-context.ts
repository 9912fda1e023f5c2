import { AsyncLocalStorage } from 'node:async_hooks'
import type { SessionScope } from '@x/mcp-client'
import type { GraphStore } from '../sessions/graph-store.ts'

/** What a call of a tool brings with it from its run. */
export interface CallContext {
  readonly scope: SessionScope
  /** The graph's own, if it has one. */
  readonly store: GraphStore | undefined
  /** Of the call's `RunnableConfig`, without what LangGraph keeps there for itself. */
  readonly configurable: Readonly<Record<string, unknown>>
  /** For this call alone. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** A client asks for scope and headers without being told by whom: it asks here. */
const storage = new AsyncLocalStorage<CallContext>()

export function currentCall(): CallContext | undefined {
  return storage.getStore()
}

export function inCall<T>(context: CallContext, call: () => T): T {
  return storage.run(context, call)
}
