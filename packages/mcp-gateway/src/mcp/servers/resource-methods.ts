import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type Server,
} from '@modelcontextprotocol/server'

import { GatewayError } from '../../errors.ts'
import { slotOwnerOf } from '../../runs/run-slots.ts'
import type { ResourceHandlers } from '../../files/resource-handlers.ts'
import type { ServerParts } from './server-parts.ts'

/** Puts what `resources` answers under its methods. */
export function resourceMethods(
  { callers, changes, onError }: ServerParts,
  own: ResourceHandlers,
): readonly (readonly [string, (server: Server) => void])[] {
  const resources = toldInWords(own, onError)
  return [
    [
      'resources/list',
      (server) => {
        server.setRequestHandler('resources/list', (request, context) =>
          resources.list(callers.of(context), request.params?.cursor),
        )
      },
    ],
    [
      'resources/templates/list',
      (server) => {
        server.setRequestHandler('resources/templates/list', (_request, context) =>
          resources.templates(callers.of(context)),
        )
      },
    ],
    [
      'resources/read',
      (server) => {
        server.setRequestHandler('resources/read', async ({ params: { uri } }, context) => {
          const { mcpReq } = context
          const caller = callers.of(context)
          const read = await resources.read(caller, uri, () => {
            mcpReq.signal.throwIfAborted()
            // Asked again: many reads may have been let in before the first of them was answered.
            if (caller.hasRoom?.(slotOwnerOf(caller)) === false) throw noRoom(uri)
          })
          const contents = [...read.contents]
          if (mcpReq.envelope === undefined || !read.fixedMs) return { contents }
          return { contents, ttlMs: read.fixedMs, cacheScope: 'private' as const }
        })
      },
    ],
    ['resources/subscribe', (server) => follow(server, { callers, changes }, resources)],
    ['resources/unsubscribe', (server) => unfollow(server, { callers, changes }, resources)],
    ['completion/complete', (server) => complete(server, { callers }, resources)],
  ]
}

/** The same handlers. What a store says of itself (its host, port or file) goes to the log, and not to the caller. */
function toldInWords(
  resources: ResourceHandlers,
  onError: ServerParts['onError'],
): ResourceHandlers {
  const inWords = async <T>(asked: Promise<T>): Promise<T> => {
    try {
      return await asked
    } catch (cause) {
      if (!GatewayError.is(cause)) throw cause
      onError(new Error('A resource could not be read', { cause }))
      const text = 'Resources cannot be reached now. Try again in a moment.'
      throw new ProtocolError(ProtocolErrorCode.InternalError, text)
    }
  }
  return {
    list: (caller, cursor) => inWords(resources.list(caller, cursor)),
    templates: (caller) => inWords(resources.templates(caller)),
    read: (caller, uri, check) => inWords(resources.read(caller, uri, check)),
    listOf: (caller) => resources.listOf(caller),
    followed: (caller, uri) => inWords(resources.followed(caller, uri)),
    ...(resources.complete && {
      complete: (caller, asked) => inWords(resources.complete?.(caller, asked) ?? NO_VALUES),
    }),
  }
}

const NO_VALUES = Promise.resolve({ values: [] })

function noRoom(uri: string): ProtocolError {
  const text =
    'Too many answers wait for clients that do not read them. Read the answers, and this resource again.'
  return new ProtocolError(ProtocolErrorCode.InternalError, text, { uri, retryAfterMs: 5000 })
}

type Followers = Pick<ServerParts, 'callers' | 'changes'>

/** Of sessions only: modern clients name what they follow as they begin to listen. */
function follow(
  server: Server,
  { callers, changes }: Followers,
  resources: ResourceHandlers,
): void {
  server.setRequestHandler('resources/subscribe', async ({ params: { uri } }, context) => {
    const followed = await resources.followed(callers.of(context), uri)
    if (followed === undefined) throw new ResourceNotFoundError(uri)
    if (await changes.follow(server, followed)) return {}
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Too many resources are followed')
  })
}

/** Also of what was followed at another process, or never. */
function unfollow(
  server: Server,
  { callers, changes }: Followers,
  resources: ResourceHandlers,
): void {
  server.setRequestHandler('resources/unsubscribe', async ({ params: { uri } }, context) => {
    const followed = await resources.followed(callers.of(context), uri)
    await changes.unfollow(server, followed ?? uri)
    return {}
  })
}

function complete(
  server: Server,
  { callers }: Pick<ServerParts, 'callers'>,
  resources: ResourceHandlers,
): void {
  if (!resources.complete) return
  server.setRequestHandler('completion/complete', async ({ params }, context) => {
    const { ref, argument, context: chosen } = params
    const template = ref.type === 'ref/resource' ? ref.uri : undefined
    if (template === undefined || !resources.complete) return { completion: { values: [] } }
    const asked = { template, ...argument, given: chosen?.arguments }
    const completion = await resources.complete(callers.of(context), asked)
    return { completion }
  })
}
