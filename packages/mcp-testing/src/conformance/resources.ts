import type { McpServer } from '@modelcontextprotocol/server'
import { ResourceTemplate } from '@modelcontextprotocol/server'
import { PIXEL } from './pixel.ts'

/** A text, bytes, one that can be followed, and a template. */
export function addResources(mcp: McpServer): void {
  const text = (name: string, uri: string, content: string): void => {
    const mimeType = 'text/plain'
    mcp.registerResource(name, uri, { mimeType, description: `What ${name} says.` }, () => ({
      contents: [{ uri, mimeType, text: content }],
    }))
  }
  text('static-text', 'test://static-text', 'This is the content of the static text resource.')
  text('watched', 'test://watched-resource', 'This may change.')
  const bytes = { mimeType: 'image/png', description: 'One red pixel.' }
  mcp.registerResource('static-binary', 'test://static-binary', bytes, (uri) => ({
    contents: [{ uri: uri.href, mimeType: 'image/png', blob: PIXEL }],
  }))
  mcp.registerResource(
    'template',
    new ResourceTemplate('test://template/{id}/data', { list: undefined }),
    { mimeType: 'application/json', description: 'Data by id.' },
    (uri, { id }) => {
      const data = { id, templateTest: true, data: `Data for ID: ${String(id)}` }
      return {
        contents: [{ uri: uri.href, mimeType: 'application/json', text: JSON.stringify(data) }],
      }
    },
  )
  mcp.server.setRequestHandler('resources/subscribe', () => ({}))
  mcp.server.setRequestHandler('resources/unsubscribe', () => ({}))
}
