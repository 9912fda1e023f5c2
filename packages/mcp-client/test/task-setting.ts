// A server and a client for tests of tasks.
import { startTaskServer } from '@x/mcp-testing'
import type { TaskServer, TaskServerOptions } from '@x/mcp-testing'
import { expect } from 'vitest'
import { McpClient } from '../src/index.ts'
import type { McpClientOptions, McpTask, TaskReference } from '../src/index.ts'

interface Given extends AsyncDisposable {
  readonly server: TaskServer
  readonly client: McpClient
  /** Questions that the user got. */
  readonly asked: string[]
}

export async function given(
  options: McpClientOptions = {},
  serverOptions: TaskServerOptions = {},
): Promise<Given> {
  const server = await startTaskServer(serverOptions)
  const asked: string[] = []
  const handlers: McpClientOptions['handlers'] = {
    elicitation: ({ message }) => {
      asked.push(message)
      return { action: 'accept', content: { value: `re: ${message}` } }
    },
  }
  const client = new McpClient({ url: server.url }, { handlers, ...options })
  return {
    server,
    client,
    asked,
    async [Symbol.asyncDispose]() {
      await client.dispose()
      await server[Symbol.asyncDispose]()
      expect(server.violations).toEqual([])
    },
  }
}

export async function startedTask(
  client: McpClient,
  tool = 'slow_compute',
  args = {},
): Promise<McpTask> {
  const { task } = await client.startTool(tool, args)
  if (task === undefined) throw new Error('The server has not started a task')
  return task
}

/** As another process gets it. */
export function stored({ reference }: McpTask): TaskReference {
  return JSON.parse(JSON.stringify(reference)) as TaskReference
}

export const polled = (server: TaskServer): Promise<unknown> =>
  server.waitFor(({ rpcMethod, end }) => rpcMethod === 'tasks/get' && end === 'complete')
