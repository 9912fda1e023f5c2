import { MultiServerMCPClient } from '@langchain/mcp-adapters'
import { createMcpTools } from '@x/langchain-mcp'
import { startLegacyServer } from '@x/mcp-testing'
import { callsOf } from '../tools.ts'

/** Of each subject that knows of tenants: which tenant a call of A is made for, after B was there. */
export async function tenancy(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ['@langchain/mcp-adapters', await ofAdapters()],
    ['@x/langchain-mcp', await ofOurs()],
  ])
}

async function ofAdapters(): Promise<string> {
  await using server = await startLegacyServer()
  const { url } = server
  const client = new MultiServerMCPClient({ mcpServers: { shop: { transport: 'http', url } } })
  try {
    const toolsOf = async (tenant: string): ReturnType<typeof client.getTools> =>
      client.getTools(['shop'], { headers: { 'x-tenant': tenant } })
    await toolsOf('A')
    await toolsOf('B')
    await callsOf(await toolsOf('A')).call('counter_add')
  } finally {
    await client.close()
  }
  return tenantOf(server)
}

async function ofOurs(): Promise<string> {
  await using server = await startLegacyServer()
  await using mcp = createMcpTools({
    servers: {
      shop: {
        url: server.url,
        headers: ({ configurable }) => ({ 'x-tenant': tenantIn(configurable) }),
      },
    },
    principal: ({ configurable }) => tenantIn(configurable),
  })
  const [counter] = (await mcp.listTools({ config: as('A') })).filter(
    ({ name }) => name === 'counter_add',
  )
  for (const tenant of ['A', 'B', 'A']) await counter?.invoke({}, as(tenant))
  return tenantOf(server)
}

function tenantOf({ received }: Awaited<ReturnType<typeof startLegacyServer>>): string {
  const last = received.findLast(({ toolName }) => toolName === 'counter_add')
  return `called as ${String(last?.headers['x-tenant'])}`
}

interface ForTenant {
  readonly configurable: { readonly tenant: string }
}

function as(tenant: string): ForTenant {
  return { configurable: { tenant } }
}

function tenantIn(configurable: Readonly<Record<string, unknown>> = {}): string {
  return String(configurable['tenant'])
}
