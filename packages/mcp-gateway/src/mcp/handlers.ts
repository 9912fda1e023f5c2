import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type Implementation,
  type InputRequiredResult,
  type Result,
  type ServerCapabilities,
} from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import { UI_SCHEME } from '../agents/agent.ts'
import { GatewayError } from '../errors.ts'
import type { ArtifactResources } from '../files/resources.ts'
import type { Clock } from '../internal/clock.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import { mayUse, type Principal } from '../internal/principal.ts'
import type { SignedCursors } from '../internal/signing.ts'
import { wholeCharacters } from '../internal/text.ts'
import type { StreamingSettings } from '../options.ts'
import { IDEMPOTENCY } from '../runs/order.ts'
import { pageResourceOf } from '../runs/result.ts'
import type { RequestStates } from '../runs/request-state.ts'
import type { Calls } from '../runs/calls.ts'
import type { Conversations } from '../runs/conversations.ts'
import { TASKS_EXTENSION } from '../tasks/task-view.ts'
import type { Tasks } from '../tasks/tasks.ts'
import type { AgentRegistry } from '../tools/agent-registry.ts'
import type { ResultCache } from '../tools/result-cache.ts'
import { completeArgument, promptContentOf, type PlannedPrompt } from '../tools/prompts.ts'
import { listPrompts, listTools, type ToolPlan } from '../tools/plan.ts'
import { invalidParams, methodNotFound, type Params } from './json-rpc.ts'
import type { RequestContext } from './request-context.ts'
import { SKILLS_EXTENSION, type SkillFolder } from '../skills/skill-folder.ts'
import { skillMethods } from './skill-methods.ts'
import { taskMethods } from './task-methods.ts'
import { callTool, MAX_ARGUMENT_BYTES } from './tool-call.ts'

/** Result of a request, before an edge gives it the form of the client's revision: see `resultForRevision()`. */
export type McpResult = Result | InputRequiredResult

/** Clients with sessions (stdio too), and clients of 2026-07-28. */
export type ClientKind = 'session' | 'modern'

/** Answers the requests of clients of all revisions. Knows no transport. */
export interface McpHandlers {
  readonly serverInfo: Implementation
  /** Description of the whole server for models. */
  readonly instructions: string | undefined
  capabilities(kind: ClientKind): ServerCapabilities
  /** @throws ProtocolError with the code, message and data of the error response */
  handle(method: string, params: Params, context: RequestContext): McpResult | Promise<McpResult>
}

export interface HandlerParts extends Pick<McpHandlers, 'serverInfo' | 'instructions'> {
  readonly registry: Pick<AgentRegistry, 'plan'>
  readonly calls: Pick<Calls, 'call'>
  /** `undefined` in mode `run`. */
  readonly conversations: Conversations | undefined
  readonly tasks: Tasks
  /** Time for which the outcome of a call with an idempotency key is stored. */
  readonly resultTtlMs: number
  readonly cursors: SignedCursors
  readonly states: RequestStates
  readonly pageSize: number
  /** `public`: all callers get the same lists, so that caches may share them. */
  readonly cacheScope: 'public' | 'private'
  /** `undefined`: the capability is not declared. */
  readonly resources: ArtifactResources | undefined
  /** `undefined`: the extension is not declared. */
  readonly skills: SkillFolder | undefined
  readonly results: ResultCache
  /** Channel for pieces of an answer before it is complete. */
  readonly channel: StreamingSettings['channel']
  readonly observer: Required<GatewayObserver> | undefined
  readonly clock: Clock
  /** Is called for errors that no response contains. */
  readonly onError: (error: Error) => void
  /** Writes a warning to the log. */
  readonly onWarning: (message: string) => void
}

/** Entries on one page of a list. Many clients read the first page only. */
export const PAGE_SIZE = 200

/** How long clients of 2026-07-28 may keep a list: few agents come and go more often. */
export const LIST_TTL_MS = 5000

export type Method = (
  params: Params,
  context: RequestContext,
  parts: HandlerParts,
) => McpResult | Promise<McpResult>

/** Answers with the agents of a gateway, their prompts, and files. */
export class GatewayHandlers implements McpHandlers {
  readonly serverInfo: Implementation
  readonly instructions: string | undefined
  readonly #parts: HandlerParts
  readonly #methods: ReadonlyMap<string, Method>

  constructor(parts: HandlerParts) {
    this.serverInfo = parts.serverInfo
    this.instructions = parts.instructions
    this.#parts = parts
    const methods: Record<string, Method> = {
      ...NO_RESOURCES,
      ...TOOL_METHODS,
      ...taskMethods(parts),
      ...PROMPT_METHODS,
      ...(parts.resources && resourceMethods(parts.resources)),
      ...COMPLETION_METHODS,
    }
    const { skills } = parts
    methods['resources/read'] = withPages(methods['resources/read'])
    this.#methods = new Map(
      Object.entries({ ...methods, ...(skills && skillMethods(skills, methods)) }),
    )
  }

  capabilities(kind: ClientKind): ServerCapabilities {
    const { channel, registry, resources, resultTtlMs, skills } = this.#parts
    const extensions = skills && { [SKILLS_EXTENSION]: { directoryRead: true } }
    const keys = { [IDEMPOTENCY]: { retentionMs: resultTtlMs, inFlight: 'join' } }
    const changes = { listChanged: true }
    const hasPages = registry.plan().tools.some(({ ui }) => ui)
    return {
      tools: changes,
      prompts: changes,
      ...(hasPages && { resources: {} }),
      ...(skills && { resources: changes }),
      ...(resources && { resources: { ...changes, subscribe: true } }),
      completions: {},
      ...(kind === 'modern'
        ? { extensions: { [TASKS_EXTENSION]: {}, ...keys, ...extensions } }
        : { experimental: keys, ...(extensions && { extensions }) }),
      ...((channel === 'log' || channel === 'both') && { logging: {} }),
    }
  }

  handle(method: string, params: Params, context: RequestContext): McpResult | Promise<McpResult> {
    const answer = this.#methods.get(method)
    if (!answer) throw methodNotFound()
    return answer(params, context, this.#parts)
  }
}

type Methods = Readonly<Record<string, Method>>

const TOOL_METHODS: Methods = {
  'tools/call': callTool,
  'tools/list': listMethod('tools', listTools),
}

const PROMPT_METHODS: Methods = {
  'prompts/list': listMethod('prompts', listPrompts),
  'prompts/get': (params, { principal }, parts) => {
    const prompt = promptOf(parts, textOf(params, 'name'), principal)
    const { arguments: args } = params
    if (Buffer.byteLength(JSON.stringify(args ?? {})) > MAX_ARGUMENT_BYTES) {
      throw invalidParams(`The arguments are longer than ${MAX_ARGUMENT_BYTES} bytes`)
    }
    const content = promptContentOf(prompt, args)
    if (typeof content === 'string') throw invalidParams(content)
    return { ...content }
  },
}

/** Lists of a gateway whose only resources are the pages of tools. */
const NO_RESOURCES: Methods = {
  'resources/list': () => ({ resources: [] }),
  'resources/templates/list': () => ({ resourceTemplates: [] }),
}

/** Adds the pages of the tools that a caller may use. */
function withPages(read: Method | undefined): Method {
  return (params, context, parts) => {
    const uri = textOf(params, 'uri')
    const ui = uri.startsWith(UI_SCHEME)
      ? parts.registry
          .plan()
          .tools.find((tool) => tool.ui?.resourceUri === uri && mayUse(context.principal, tool))?.ui
      : undefined
    if (ui) return { contents: [pageResourceOf(ui)] }
    if (read) return read(params, context, parts)
    throw new ResourceNotFoundError(uri)
  }
}

function resourceMethods(resources: ArtifactResources): Methods {
  const methods: Methods = {
    'resources/list': (params, context) => resources.list(context.caller, cursorOf(params)),
    'resources/templates/list': () => resources.templates(),
    'resources/read': async (params, context) => {
      const uri = textOf(params, 'uri')
      const { contents, fixedMs } = await resources.read(context.caller, uri, () => {
        context.signal.throwIfAborted()
        // Asked again here, because many requests may have been accepted before the first of them was answered.
        if (context.hasRoom()) return
        const data = { uri, retryAfterMs: 5000 }
        throw new ProtocolError(ProtocolErrorCode.InternalError, NO_ROOM, data)
      })
      return fixedMs ? { contents, ttlMs: fixedMs, cacheScope: 'private' } : { contents }
    },
    'resources/subscribe': async (params, context) => {
      if (!context.subscribe) throw methodNotFound()
      const uri = textOf(params, 'uri')
      const followed = await resources.followed(context.caller, uri)
      if (followed === undefined) throw new ResourceNotFoundError(uri)
      if (await context.subscribe(followed)) return {}
      throw invalidParams(
        'The session has too many subscriptions. Unsubscribe from a resource first.',
      )
    },
    'resources/unsubscribe': async (params, context) => {
      if (!context.unsubscribe) throw methodNotFound()
      const uri = textOf(params, 'uri')
      await context.unsubscribe((await resources.followed(context.caller, uri)) ?? uri)
      return {}
    },
  }
  return Object.fromEntries(
    Object.entries(methods).map(([name, method]) => [name, withoutStoreErrors(method)]),
  )
}

/** Errors of a store contain its host, port or file: they go to the log, and not to the client. */
function withoutStoreErrors(method: Method): Method {
  return async (params, context, parts) => {
    try {
      return await method(params, context, parts)
    } catch (cause) {
      if (!GatewayError.is(cause)) throw cause
      parts.onError(new Error('A resource could not be read', { cause }))
      const text = 'Resources cannot be reached now. Try again in a moment.'
      throw new ProtocolError(ProtocolErrorCode.InternalError, text)
    }
  }
}

const NO_ROOM =
  'Too many responses wait for clients that do not read them. Read the responses, then this resource again.'

const COMPLETION_METHODS: Methods = {
  'completion/complete': withoutStoreErrors(
    async ({ ref, argument, context: chosen }, context, parts) => {
      const { resources } = parts
      if (!isRecord(ref) || !isRecord(argument)) {
        throw invalidParams('completion/complete needs the objects "ref" and "argument"')
      }
      const [name, value] = [textOf(argument, 'name'), textOf(argument, 'value')]
      if (ref['type'] === 'ref/prompt') {
        const prompt = promptOf(parts, textOf(ref, 'name'), context.principal)
        return { completion: completeArgument(prompt, { name, value }) }
      }
      const template = ref['type'] === 'ref/resource' ? ref['uri'] : undefined
      if (typeof template !== 'string' || !resources) return { completion: { values: [] } }
      const given = isRecord(chosen) ? textsOf(chosen['arguments']) : undefined
      const asked = { template, name, value }
      return { completion: await resources.complete(context.caller, asked, given) }
    },
  ),
}

/** @throws ProtocolError -32602. Callers cannot tell a prompt that they may not use from one that does not exist */
function promptOf({ registry }: HandlerParts, name: string, principal: Principal): PlannedPrompt {
  const prompt = registry.plan().promptByName(name)
  if (prompt && mayUse(principal, prompt)) return prompt
  throw invalidParams(`Unknown prompt: ${wholeCharacters(name, 128)}`)
}

function textsOf(value: unknown): Readonly<Record<string, string>> | undefined {
  if (!isRecord(value)) return undefined
  const texts = Object.entries(value).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  )
  return Object.fromEntries(texts)
}

/**
 * Answers with one page of a list that is sorted by name. A cursor is the last name of the page before, so that a list
 * that changes between two pages neither repeats nor loses an entry.
 *
 * @throws ProtocolError -32602 for a cursor of another list or another caller
 */
function listMethod(
  key: 'tools' | 'prompts',
  listAll: (plan: ToolPlan, principal: Principal) => readonly { readonly name: string }[],
): Method {
  return (params, { principal }, { cacheScope, cursors, pageSize, registry }) => {
    const list = `${key}\0${principal.id}`
    const cursor = cursorOf(params)
    const after = cursor === undefined ? '' : cursors.open(list, cursor)
    if (after === undefined)
      throw invalidParams(
        'The cursor does not belong to this list. Read the list from its beginning.',
      )
    const all = listAll(registry.plan(), principal)
    const rest = after === '' ? all : all.filter(({ name }) => name > after)
    const entries = rest.slice(0, pageSize)
    const last = rest.length > pageSize ? entries.at(-1) : undefined
    const nextCursor = last && cursors.seal(list, last.name)
    return { [key]: entries, nextCursor, ttlMs: LIST_TTL_MS, cacheScope }
  }
}

function cursorOf({ cursor }: Params): string | undefined {
  if (cursor === undefined || typeof cursor === 'string') return cursor
  throw invalidParams('"cursor" must be text')
}

function textOf(params: Params, name: string): string {
  const value = params[name]
  if (typeof value === 'string') return value
  throw invalidParams(`"${name}" must be text`)
}
