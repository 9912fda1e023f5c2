import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { CLIENT_INFO } from '../client-kind.ts'
import type { ClientHooks, ClientKind, ClientUnderTest, Target } from '../client-kind.ts'

const MODES = {
  legacy: 'legacy',
  modern: { pin: '2026-07-28' },
  auto: 'auto',
} as const

type Mode = keyof typeof MODES

/** The client of SDK v2 in each of its ways to settle on a revision. */
export const sdkV2: readonly ClientKind[] = [kind('legacy'), kind('modern'), kind('auto')]

function kind(mode: Mode): ClientKind {
  return {
    name: `SDK v2, ${mode}`,
    era: mode === 'legacy' ? 'legacy' : 'modern',
    can: ['silence', 'prompts', 'resources', 'progress', 'answers', 'changes'],
    connect: async (target, hooks = {}) => {
      const client = clientWith(mode, hooks)
      await client.connect(transportTo(target))
      return underTest(client)
    },
  }
}

function clientWith(mode: Mode, { answer, onToolsChanged }: ClientHooks): Client {
  const client = new Client(CLIENT_INFO, {
    versionNegotiation: { mode: MODES[mode] },
    capabilities: answer ? { elicitation: { form: {} } } : {},
    ...(onToolsChanged && { listChanged: { tools: { onChanged: onToolsChanged } } }),
  })
  if (answer) {
    client.setRequestHandler('elicitation/create', ({ params }) => ({
      action: 'accept',
      content: { answer: answer('message' in params ? params.message : '') },
    }))
  }
  return client
}

function transportTo(target: Target): StdioClientTransport | StreamableHTTPClientTransport {
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
        await client.callTool(
          { name, arguments: { message } },
          {
            ...(signal && { signal }),
            ...(onProgress && { onprogress: ({ message: text = '' }) => onProgress(text) }),
          },
        ),
      ),
    listPrompts: async () => (await client.listPrompts()).prompts.map(({ name }) => name),
    getPrompt: async (name) => JSON.stringify(await client.getPrompt({ name })),
    listResources: async () => (await client.listResources()).resources.map(({ uri }) => uri),
    readResource: async (uri) => JSON.stringify(await client.readResource({ uri })),
    [Symbol.asyncDispose]: () => client.close(),
  }
}
