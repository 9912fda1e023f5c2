import type { LimitOptions, TraceContext } from '@x/mcp-transport'
import type { Secrets } from '../secret-source.ts'
import type { SessionTransport } from '../life/session-transport.ts'
import { commandLabel } from './command-label.ts'
import { StdioTransport } from './stdio-transport.ts'
import type { ServerCommand } from './start-child.ts'
import type { StdioOptions } from './stdio-options.ts'
import { workingFolder } from './working-folder.ts'
import type { WorkingFolder } from './working-folder.ts'

export interface StdioConnectionOptions {
  readonly server: ServerCommand
  /** Added to the server's `env`, and taken out of all that is told of it; asked at every start. */
  readonly secrets: () => Promise<Secrets>
  readonly stdio: StdioOptions | undefined
  readonly limits: LimitOptions | undefined
  readonly traceContext: () => TraceContext | undefined
  readonly log: (level: 'info' | 'warning', message: string) => void
}

/** Starts one child after the other, and knows those that are not gone yet. Closing it awaits their end. */
export interface StdioConnection extends AsyncDisposable {
  createTransport(): SessionTransport
}

export function stdioConnection(options: StdioConnectionOptions): StdioConnection {
  const { server, secrets, stdio, limits, traceContext, log } = options
  const transports = new Set<StdioTransport>()
  let epoch = 0
  let made: Promise<WorkingFolder> | undefined
  const folder = async (): Promise<string> => {
    const making = (made ??= workingFolder({
      cwd: server.cwd,
      cacheFolder: stdio?.cacheFolder,
      label: commandLabel(server.command),
    }))
    try {
      return (await making).path
    } catch (error) {
      if (made === making) made = undefined
      throw error
    }
  }
  return {
    createTransport() {
      const transport: StdioTransport = new StdioTransport({
        server,
        secrets,
        stdio,
        folder,
        epoch: ++epoch,
        lineBytes: limits?.eventBytes,
        traceContext,
        log,
        onGone: () => transports.delete(transport),
      })
      transports.add(transport)
      return transport
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(Array.from(transports, (transport) => transport.close()))
      const used = await made?.catch(() => undefined)
      await used?.[Symbol.asyncDispose]()
    },
  }
}
