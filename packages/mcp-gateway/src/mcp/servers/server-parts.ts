import type {
  Implementation,
  jsonSchemaValidator,
  RequestStateCodec,
} from '@modelcontextprotocol/server'

import type { AgentRegistry } from '../../tools/agent-registry.ts'
import type { GatewayObserver } from '../../internal/observer.ts'
import type { InputFile } from '../../files/result-files.ts'
import type { RequestState } from '../../runs/interrupts/request-state.ts'
import type { Runs } from '../../runs/runs.ts'
import type { ResultCache } from '../../tools/result-cache.ts'
import type { Caller, Callers } from '../caller.ts'
import type { Changes } from '../changes/changes.ts'
import type { OwnTool } from './own-tool.ts'
import type { ResourceHandlers } from '../../files/resource-handlers.ts'
import type { SignedCursors } from '../../internal/signed-cursor.ts'

/** What all MCP servers of one gateway share; a server itself is made for each request or session. */
export interface ServerParts {
  readonly info: Implementation
  /** What a model is told of the whole. */
  readonly instructions?: string | undefined
  readonly registry: Pick<AgentRegistry, 'plan' | 'ownerOf'>
  readonly runs: Pick<Runs, 'call'>
  readonly callers: Callers
  readonly changes: Changes
  readonly cursors: SignedCursors
  readonly states: RequestStateCodec<RequestState>
  readonly lists: ListRules
  /** @default none: the capability is not declared */
  readonly resources?: ResourceHandlers | undefined
  /** Artifacts that are handed to an agent. @throws GatewayError for one that is not the caller's */
  readonly inputFiles?:
    | ((caller: Caller, uris: readonly string[]) => Promise<readonly InputFile[]>)
    | undefined
  /** Of the gateway itself. @default none */
  readonly ownTools?: readonly OwnTool[] | undefined
  /** @default no result is given twice */
  readonly results?: ResultCache | undefined
  /** One for all: a validator of its own for each request costs more than the request. */
  readonly validator: jsonSchemaValidator
  /** How long a person may take to answer what a session asks. */
  readonly questionTimeoutMs: number
  /** Of the arguments of one call, as JSON. */
  readonly argumentBytes: number
  /** How what an agent says meanwhile is told. */
  readonly channel: 'progress' | 'log' | 'both'
  /** Offers prompts: one for each example of a skill. */
  readonly hasPrompts: boolean
  /** Told of calls and sessions. @default nobody */
  readonly observer?: Required<GatewayObserver> | undefined
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** Told of what went wrong beside any answer. */
  readonly onError: (error: Error) => void
}

/** How lists are given out. */
interface ListRules {
  /** Entries on one page. */
  readonly pageSize: number
  /** How long a modern client may keep a list. */
  readonly ttlMs: number
  /** `public`: everybody is given the same, so that caches may share it. */
  readonly cacheScope: 'public' | 'private'
}
