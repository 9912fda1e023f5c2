import { loadMcpTools, MultiServerMCPClient } from '@langchain/mcp-adapters'
import type { Connection } from '@langchain/mcp-adapters'
import type { ClientKind, ClientUnderTest, Target } from '../client-kind.ts'
import { callsOf } from '../../tools.ts'

/** LangChain's adapters with a client and transports of their own. They know of no questions. */
export const adapters: ClientKind = {
  name: '@langchain/mcp-adapters',
  era: 'legacy',
  can: ['silence', 'resources', 'progress', 'changes'],
  connect: async (target, { onToolsChanged } = {}) => {
    const client = new MultiServerMCPClient({
      mcpServers: { gateway: connectionTo(target) },
      ...(onToolsChanged && { onToolsListChanged: onToolsChanged }),
    })
    await client.initializeConnections()
    return underTest(client)
  },
}

function connectionTo(target: Target): Connection {
  if ('command' in target) {
    return { transport: 'stdio', command: target.command, args: [...target.args] }
  }
  // Else they go on with HTTP+SSE where a server says no.
  const { url, headers = {} } = target
  return { transport: 'http', url, headers: { ...headers }, automaticSSEFallback: false }
}

function underTest(client: MultiServerMCPClient): ClientUnderTest {
  const connected = async (): Promise<Parameters<typeof loadMcpTools>[1]> => {
    const one = await client.getClient('gateway')
    if (one === undefined) throw new Error('It is not connected')
    return one
  }
  return {
    listTools: async () => callsOf(await loadMcpTools('gateway', await connected())).names,
    // Read anew: `getTools()` keeps its first list, also after it changed.
    call: async (name, message, { signal, onProgress } = {}) => {
      const tools = await loadMcpTools('gateway', await connected(), {
        // Else files are for the program and not for the model: beside the answer.
        outputHandling: 'content',
        ...(onProgress && { onProgress: ({ message: text = '' }) => onProgress(text) }),
      })
      return callsOf(tools).call(name, { message }, signal)
    },
    listResources: async () => {
      const { gateway = [] } = await client.listResources()
      return gateway.map(({ uri }) => uri)
    },
    readResource: async (uri) => JSON.stringify(await client.readResource('gateway', uri)),
    [Symbol.asyncDispose]: () => client.close(),
  }
}
