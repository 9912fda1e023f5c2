import {
  SdkError,
  SdkErrorCode,
  Server,
  type ServerCapabilities,
  type ServerOptions,
  type Transport,
} from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import { TIMED_OUT } from '../../runs/interrupts/answers.ts'
import { getPrompt, listPrompts, listTools } from './lists.ts'
import { LONE_CALL_REVISION } from '../lone-call.ts'
import { observedCall } from './observed-call.ts'
import { resourceMethods } from './resource-methods.ts'
import type { Era, ServerMaker } from './server-maker.ts'
import type { ServerParts } from './server-parts.ts'

/** Rounds of questions within one call of a session. */
const MAX_ROUNDS = 8
/** Methods that need somebody who can be told later. */
const SESSION_METHODS = ['resources/subscribe', 'resources/unsubscribe']

/**
 * Makes the MCP servers of a gateway, each for one request or one session: a server that two clients share
 * mixes up their answers (CVE-2026-25536), and grows with each use (typescript-sdk #2607). What is costly,
 * the lists and the checks of tools, is not made here but taken from the plan of the moment.
 */
export class McpServers implements ServerMaker {
  readonly #parts: ServerParts
  readonly #options: Readonly<Record<Era | 'call', ServerOptions>>
  readonly #methods: ReadonlyMap<string, (server: Server) => void>
  #made = 0

  constructor(parts: ServerParts) {
    this.#parts = parts
    const modern = optionsFor('modern', parts)
    this.#options = {
      legacy: optionsFor('legacy', parts),
      stateless: optionsFor('stateless', parts),
      modern,
      call: { ...modern, supportedProtocolVersions: [LONE_CALL_REVISION] },
    }
    this.#methods = methodsOf(parts)
  }

  get made(): number {
    return this.#made
  }

  create(era: Era, method?: string | null): Server {
    const server = this.#make(era)
    if (typeof method === 'string') this.#methods.get(method)?.(server)
    else {
      for (const [name, install] of this.#methods) {
        if (era !== 'stateless' || !SESSION_METHODS.includes(name)) install(server)
      }
    }
    return server
  }

  createForCall(): Server {
    const server = this.#make('call')
    this.#methods.get('tools/call')?.(server)
    return server
  }

  /**
   * One whose methods are set up as they are first asked for: sessions are many, and most of them never use
   * most methods.
   */
  createFor(transport: Transport): Server {
    const server = this.#make('legacy')
    const used: string[] = []
    // The SDK keeps what is set before it connects, and calls it first.
    transport.onmessage = (message) => {
      if (!('method' in message) || used.includes(message.method)) return
      const install = this.#methods.get(message.method)
      if (install === undefined) return
      used.push(message.method)
      install(server)
    }
    return server
  }

  #make(era: Era | 'call'): Server {
    this.#made++
    const server = new Server(this.#parts.info, this.#options[era])
    server.onerror = this.#parts.onError
    if (era === 'legacy') answerTimeouts(server)
    return server
  }
}

/**
 * Hands an elicitation that timed out to the run that asked. The SDK would end the call by itself, with an error that has
 * no reason, and the run would go on waiting.
 */
function answerTimeouts(server: Server): void {
  const send: (...args: never[]) => Promise<unknown> = server.request.bind(server)
  const request = async (...args: never[]): Promise<unknown> => {
    try {
      return await send(...args)
    } catch (error) {
      const [message]: readonly unknown[] = args
      const isQuestion = isRecord(message) && message['method'] === 'elicitation/create'
      const isLate = error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout
      if (isQuestion && isLate) return TIMED_OUT
      const isMalformed = error instanceof SdkError && error.code === SdkErrorCode.InvalidResult
      if (isQuestion && isMalformed) throw malformedAnswer(error)
      throw error
    }
  }
  Object.defineProperty(server, 'request', { value: request })
}

/** In place of what a validator says of each form that an answer could have had. */
function malformedAnswer(cause: SdkError): SdkError {
  const text =
    'The answer to an elicitation is malformed: "action" must be accept, decline or cancel, and "content" an object of plain values.'
  return new SdkError(SdkErrorCode.InvalidResult, text, { cause })
}

function optionsFor(era: Era, parts: ServerParts): ServerOptions {
  const { ttlMs, cacheScope } = parts.lists
  const hint = { ttlMs, cacheScope }
  return {
    capabilities: capabilitiesFor(era, parts),
    jsonSchemaValidator: parts.validator,
    requestState: { verify: (state, context) => parts.states.verify(state, context) },
    inputRequired: { maxRounds: MAX_ROUNDS, roundTimeoutMs: parts.questionTimeoutMs },
    cacheHints: { 'server/discover': hint, 'tools/list': hint, 'prompts/list': hint },
    ...(parts.instructions !== undefined && { instructions: parts.instructions }),
  }
}

/** Declares what is there, and nothing else: where nothing is open between requests, nobody can be told of changes. */
function capabilitiesFor(era: Era, parts: ServerParts): ServerCapabilities {
  const { hasPrompts, resources } = parts
  const changes = era === 'stateless' ? {} : { listChanged: true }
  const following = era === 'stateless' ? {} : { subscribe: true }
  return {
    tools: changes,
    ...(hasPrompts && { prompts: changes }),
    ...(resources && { resources: { ...changes, ...following } }),
    ...(resources?.complete && { completions: {} }),
    // Others set a level per request, if at all (specification 2026-07-28, "Logging").
    ...((era === 'legacy' || parts.channel !== 'progress') && { logging: {} }),
  }
}

function methodsOf(parts: ServerParts): Map<string, (server: Server) => void> {
  const methods = new Map<string, (server: Server) => void>([
    [
      'tools/call',
      (server) => {
        server.setRequestHandler('tools/call', (request, context) =>
          observedCall(parts, server, { request, context }),
        )
      },
    ],
    [
      'tools/list',
      (server) => {
        server.setRequestHandler('tools/list', (request, context) =>
          listTools(parts, request, context),
        )
      },
    ],
  ])
  if (parts.hasPrompts) {
    methods.set('prompts/list', (server) => {
      server.setRequestHandler('prompts/list', (request, context) =>
        listPrompts(parts, request, context),
      )
    })
    methods.set('prompts/get', (server) => {
      server.setRequestHandler('prompts/get', (request, context) =>
        getPrompt(parts, request, context),
      )
    })
  }
  if (!parts.resources) return methods
  return new Map([...methods, ...resourceMethods(parts, parts.resources)])
}
