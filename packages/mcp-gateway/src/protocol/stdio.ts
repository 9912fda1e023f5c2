import type { Readable, Writable } from 'node:stream'

import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'

import type { Caller } from './caller.ts'
import type { ServerMaker } from './servers/server-maker.ts'
import type { ServerParts } from './servers/server-parts.ts'

export interface StdioOptions {
  /** @default process.stdin */
  readonly input?: Readable | undefined
  /** Nothing else may be written to it. @default process.stdout */
  readonly output?: Writable | undefined
}

/** One client at the other end of a pipe. */
export interface StdioConnection extends AsyncDisposable {
  /** Resolves when either side has ended it. */
  readonly closed: Promise<void>
  close(): Promise<void>
}

export interface StdioServing extends StdioOptions {
  readonly parts: ServerParts
  readonly servers: ServerMaker
  /** Who is at the other end. */
  readonly caller: Caller
  readonly eras: { readonly modern: boolean; readonly legacy: boolean }
  readonly maxSubscriptions: number
  /** Resolves when lists are worth being asked for. Never rejects. */
  readonly whenListable: () => Promise<void>
}

/** Serves one client over a pipe: its first message decides the era, and one server serves it to the end. */
export function connectStdio(options: StdioServing): StdioConnection {
  const { caller, parts, servers, eras, maxSubscriptions, whenListable } = options
  const wire = new WatchedStdio(options.input, options.output)
  const handle = serveStdio(
    async ({ era }) => {
      if (!eras[era]) throw new Error(`The ${era} revisions of the protocol are not served here`)
      await whenListable()
      const server = servers.create(era)
      server.onclose = () => parts.changes.remove(server)
      const owner = parts.resources?.listOf(caller)
      if (era === 'modern') parts.changes.add(server, { owner, isFiltered: true })
      else server.oninitialized = () => parts.changes.add(server, { owner })
      return server
    },
    {
      transport: wire,
      legacy: eras.legacy ? 'serve' : 'reject',
      maxSubscriptions,
      onerror: parts.onError,
    },
  )
  const close = async (): Promise<void> => {
    await handle.close()
    await wire.close()
  }
  return { closed: wire.closed, close, [Symbol.asyncDispose]: close }
}

/** The SDK tells nobody that a pipe was closed before its first message. */
class WatchedStdio extends StdioServerTransport {
  readonly closed: Promise<void>
  #onClosed: () => void = () => undefined

  constructor(input: Readable | undefined, output: Writable | undefined) {
    super(input, output)
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve
    })
  }

  override async close(): Promise<void> {
    await super.close()
    this.#onClosed()
  }
}
