import { McpClient } from '@x/mcp-client'
import { CLIENT_INFO } from '../client-kind.ts'
import type { ClientKind, Target } from '../client-kind.ts'

/** `McpClient`, which finds the newest revision by itself, and held to the older ones. */
export const ourClient: readonly ClientKind[] = [kind('legacy'), kind('auto')]

function kind(era: 'legacy' | 'auto'): ClientKind {
  return {
    name: `McpClient, ${era}`,
    era: era === 'legacy' ? 'legacy' : 'modern',
    can: ['silence', 'prompts', 'resources', 'progress', 'answers', 'changes', 'heals'],
    connect: async (target, { answer, onToolsChanged } = {}) => {
      const client = new McpClient(configOf(target), {
        era,
        clientInfo: CLIENT_INFO,
        handlers: {
          elicitation:
            answer &&
            (({ message }) => ({ action: 'accept', content: { answer: answer(message) } })),
        },
      })
      if (onToolsChanged) client.on('toolListChanged', onToolsChanged)
      return {
        listTools: async () => {
          const tools = await client.listTools({ forceRefresh: true })
          return tools.map(({ name }) => name)
        },
        call: async (name, message, { signal, onProgress } = {}) =>
          JSON.stringify(
            await client.callTool(
              name,
              { message },
              { signal, onProgress: onProgress && (({ message: text = '' }) => onProgress(text)) },
            ),
          ),
        listPrompts: async () => (await client.listPrompts()).map(({ name }) => name),
        getPrompt: async (name) => JSON.stringify(await client.getPrompt(name)),
        listResources: async () => (await client.listResources()).map(({ uri }) => uri),
        readResource: async (uri) => JSON.stringify(await client.readResource(uri)),
        [Symbol.asyncDispose]: () => client.dispose(),
      }
    },
  }
}

function configOf(target: Target): ConstructorParameters<typeof McpClient>[0] {
  return 'command' in target ? { command: target.command, args: target.args } : target
}
