import type { McpServer } from '@modelcontextprotocol/server'
import { completable, ResourceTemplate } from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { ModernState } from './modern-state.ts'

/** What `completion/complete` chooses from. */
const names = ['Ada', 'Adele', 'Grace']

/** One resource that stays, one that changes, a template; a prompt with an argument and one without. */
export function addResourcesAndPrompts(server: McpServer, state: ModernState): void {
  server.registerResource('static', 'static://text', { mimeType: 'text/plain' }, (uri) => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'always the same' }],
  }))
  server.registerResource('counter', 'counter://value', { mimeType: 'text/plain' }, (uri) => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: String(state.counter) }],
  }))
  const people = new ResourceTemplate('people://{name}', {
    list: undefined,
    complete: { name: startingWith },
  })
  server.registerResource('people', people, {}, (uri, { name }) => ({
    contents: [{ uri: uri.href, text: `About ${String(name)}` }],
  }))
  server.registerPrompt(
    'greet',
    {
      description: 'Greets somebody.',
      argsSchema: z.object({ name: completable(z.string(), startingWith) }),
    },
    ({ name }) => said(`Greet ${name}`),
  )
  server.registerPrompt('hello', { description: 'Greets everybody.' }, () => said('Say hello'))
}

function startingWith(value: string | undefined): string[] {
  return names.filter((name) => name.startsWith(value ?? ''))
}

function said(value: string): {
  messages: { role: 'user'; content: { type: 'text'; text: string } }[]
} {
  return { messages: [{ role: 'user', content: { type: 'text', text: value } }] }
}
