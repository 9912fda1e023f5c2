import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { CLIENT_INFO } from '../client-kind.ts'
import type { ClientHooks, ClientKind, ClientUnderTest, Target } from '../client-kind.ts'

export const sdkV1: ClientKind = {
  name: 'SDK v1',
  era: 'legacy',
  can: ['silence', 'prompts', 'resources', 'progress', 'answers', 'changes'],
  connect: async (target, hooks = {}) => {
    const client = clientWith(hooks)
    await client.connect(transportTo(target))
    return underTest(client)
  },
}

function clientWith({ answer, onToolsChanged }: ClientHooks): Client {
  const client = new Client(CLIENT_INFO, {
    capabilities: answer ? { elicitation: {} } : {},
    ...(onToolsChanged && {
      listChanged: { tools: { onChanged: onToolsChanged, autoRefresh: false, debounceMs: 0 } },
    }),
  })
  if (answer) {
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => ({
      action: 'accept',
      content: { answer: answer(params.message) },
    }))
  }
  return client
}

function transportTo(target: Target): Transport {
  if ('command' in target) {
    return new StdioClientTransport({ command: target.command, args: [...target.args] })
  }
  const requestInit = { headers: { ...target.headers } }
  return new StreamableHTTPClientTransport(new URL(target.url), { requestInit })
}

function underTest(client: Client): ClientUnderTest {
  return {
    listTools: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: async (name, message, { signal, onProgress } = {}) =>
      JSON.stringify(
        await client.callTool({ name, arguments: { message } }, undefined, {
          ...(signal && { signal }),
          ...(onProgress && { onprogress: ({ message: text = '' }) => onProgress(text) }),
        }),
      ),
    listPrompts: async () => (await client.listPrompts()).prompts.map(({ name }) => name),
    getPrompt: async (name) => JSON.stringify(await client.getPrompt({ name })),
    listResources: async () => (await client.listResources()).resources.map(({ uri }) => uri),
    readResource: async (uri) => JSON.stringify(await client.readResource({ uri })),
    [Symbol.asyncDispose]: () => client.close(),
  }
}
