// Finds the tools of several servers, in a process of its own: `ours | langchain-mcp-adapters`.
import { answerTasks } from '../bench/tasks.ts'
import { isObject } from '../client/checks.ts'

const [, , name] = process.argv

/** Told the ports of the servers; says how long it took until the tools of all were there, in microseconds. */
answerTasks(async (task) => {
  const ports = isObject(task) && Array.isArray(task['ports']) ? task['ports'].map(Number) : []
  const urls = ports.map((port) => [`server_${port}`, `http://127.0.0.1:${port}/mcp`] as const)
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  const { count, close } = name === 'ours' ? await ours(urls) : await adapters(urls)
  const wallUs = (performance.now() - startedAt) * 1000
  const { user, system } = process.cpuUsage(cpu)
  await close()
  if (count !== ports.length) throw new Error(`${count} tools of ${ports.length} servers`)
  return { wallUs, cpuUs: user + system }
})

interface Found {
  readonly count: number
  readonly close: () => Promise<void>
}

async function ours(urls: readonly (readonly [name: string, url: string])[]): Promise<Found> {
  const { createMcpTools } = await import('@x/langchain-mcp')
  const servers = Object.fromEntries(urls.map(([server, url]) => [server, { url }]))
  const mcp = createMcpTools({ servers, onServerError: 'throw', log: () => {} })
  const tools = await mcp.listTools()
  return { count: tools.length, close: () => mcp.close() }
}

async function adapters(urls: readonly (readonly [name: string, url: string])[]): Promise<Found> {
  const { MultiServerMCPClient } = await import('@langchain/mcp-adapters')
  const mcpServers = Object.fromEntries(
    urls.map(([server, url]) => [server, { transport: 'http' as const, url }]),
  )
  const client = new MultiServerMCPClient({ mcpServers })
  const tools = await client.getTools()
  return { count: tools.length, close: () => client.close() }
}
