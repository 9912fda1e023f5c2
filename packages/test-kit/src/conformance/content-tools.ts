import type { CallToolResult, McpServer } from '@modelcontextprotocol/server'
import { PNG, WAV } from './samples.ts'

type Content = CallToolResult['content']

/** Tools that answer with one kind of content each. */
export function addContentTools(mcp: McpServer): void {
  const answering = (name: string, content: Content): void => {
    mcp.registerTool(name, { description: `Answers with what ${name} says.` }, () => ({ content }))
  }
  answering('test_image_content', [{ type: 'image', data: PNG, mimeType: 'image/png' }])
  answering('test_audio_content', [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }])
  answering('test_embedded_resource', [
    embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.'),
  ])
  answering('test_multiple_content_types', [
    { type: 'text', text: 'Multiple content types test:' },
    { type: 'image', data: PNG, mimeType: 'image/png' },
    embedded(
      'test://mixed-content-resource',
      'application/json',
      JSON.stringify({ test: 'data', value: 123 }),
    ),
  ])
}

function embedded(uri: string, mimeType: string, text: string): Content[number] {
  return { type: 'resource', resource: { uri, mimeType, text } }
}
