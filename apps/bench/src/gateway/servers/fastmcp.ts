import { FastMCP } from 'fastmcp'
import { z } from 'zod'
import { echoOf, toolNames } from '../protocol.ts'
import { freePort } from './free-port.ts'

const nothing = (): void => undefined
const SILENT = { debug: nothing, error: nothing, info: nothing, log: nothing, warn: nothing }

export interface FastMcpOptions {
  readonly tools: number
  /** Its tools answer one turn after they were called. */
  readonly isLater: boolean
}

/** FastMCP for TypeScript over HTTP, with sessions, as it comes. */
export async function serveFastMcp({ tools, isLater }: FastMcpOptions): Promise<number> {
  const server = new FastMCP({ name: 'fastmcp', version: '1.0.0', logger: SILENT })
  for (const name of toolNames(tools)) {
    server.addTool({
      name,
      description: 'Says again what it was told.',
      parameters: z.object({ message: z.string() }),
      execute: async ({ message }) => {
        if (isLater) await new Promise(setImmediate)
        return echoOf(message)
      },
    })
  }
  const port = await freePort()
  await server.start({ transportType: 'httpStream', httpStream: { port, host: '127.0.0.1' } })
  return port
}
