import { AjvJsonSchemaValidator } from '@modelcontextprotocol/server/validators/ajv'

import type { AgentRegistry } from '../tools/agent-registry.ts'
import type { Clock } from '../internal/clock.ts'
import type { GatewayArtifacts } from './gateway-artifacts.ts'
import type { CheckedOptions } from '../options.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import type { Callers } from '../mcp/caller.ts'
import type { Changes } from '../mcp/changes/changes.ts'
import type { ServerParts } from '../mcp/sdk-server.ts'
import { SignedCursors } from '../internal/signed-cursor.ts'
import { RequestStates } from '../runs/interrupts/request-state.ts'
import type { Runs } from '../runs/runs.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import { ResultCache } from '../tools/result-cache.ts'

export interface GatewayServerParts {
  readonly options: CheckedOptions
  readonly registry: AgentRegistry
  readonly runs: Runs
  readonly changes: Changes
  readonly artifacts: GatewayArtifacts | undefined
  readonly store: GatewayStore
  readonly key: Uint8Array
  readonly clock: Clock
  readonly observer: Required<GatewayObserver>
  /** Somebody counts; else nothing is measured. */
  readonly isObserved: boolean
  /** Of one call; may change while the gateway runs. */
  readonly argumentBytes: () => number
  readonly onError: (error: Error) => void
}

/** What all MCP servers for these callers share. */
export function gatewayServerParts(gateway: GatewayServerParts, callers: Callers): ServerParts {
  const { options, artifacts, key, clock, observer, isObserved, argumentBytes } = gateway
  const { registry, runs, changes, store, onError } = gateway
  const { auth, server, streaming, tools } = options
  const { needsInputTtlMs, questionTimeoutMs } = options.runs
  const { listTtlMs: ttlMs, pageSize } = tools
  return {
    info: { name: server.name, version: server.version },
    instructions: server.description,
    registry,
    runs,
    callers,
    changes,
    resources: artifacts?.resources,
    inputFiles: artifacts?.inputFiles,
    ownTools: artifacts?.tools,
    cursors: new SignedCursors(key),
    states: new RequestStates({ key, ttlMs: needsInputTtlMs }),
    lists: { pageSize, ttlMs, cacheScope: auth ? 'private' : 'public' },
    results: new ResultCache(store.values, observer.warned),
    validator: new AjvJsonSchemaValidator(),
    questionTimeoutMs,
    get argumentBytes() {
      return argumentBytes()
    },
    channel: streaming.channel,
    hasPrompts: tools.prompts,
    observer: isObserved ? observer : undefined,
    now: () => clock.now(),
    onError,
  }
}
