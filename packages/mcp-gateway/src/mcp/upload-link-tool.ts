import { toolError, type OwnTool } from './tool-call.ts'
import type { ToolDefinition } from '../tools/plan.ts'
import type { ArtifactLinks } from '../files/links.ts'

export interface UploadLinkToolOptions {
  readonly links: ArtifactLinks
  /** Limit for one file. Bytes. */
  readonly maxBytes: number
}

const MAX_NAME_CHARS = 255

/** Makes the tool `artifact_upload_link`. Bytes go to the gateway by HTTP, never through the model. */
export function uploadLinkTool({ links, maxBytes }: UploadLinkToolOptions): OwnTool {
  return {
    definition: definitionWith(maxBytes),
    async call(caller, { name }) {
      if (typeof name !== 'string' || name.trim() === '' || name.length > MAX_NAME_CHARS) {
        const problem = `/name must be a text of 1 to ${MAX_NAME_CHARS} characters`
        return toolError('invalid_arguments', `Bad arguments: ${problem}`)
      }
      const made = await links.uploadLink(caller, name)
      if (made === undefined) {
        const why = 'This gateway does not know the address by which clients reach it over HTTP.'
        return toolError('unavailable', why)
      }
      const expiresAt = new Date(made.expiresAt).toISOString()
      const link = { method: 'PUT', url: made.url, expiresAt, maxBytes }
      return {
        content: [{ type: 'text', text: JSON.stringify(link) }],
        structuredContent: link,
      }
    },
  }
}

function definitionWith(maxBytes: number): ToolDefinition {
  const text = { type: 'string' }
  return {
    name: 'artifact_upload_link',
    title: 'Make a link to upload a file',
    description: `Gives a URL to which a file of at most ${maxBytes} bytes is sent as the body of an HTTP PUT, without a credential. The response has the \`uri\` that tools take in \`files\`.`,
    inputSchema: {
      type: 'object',
      properties: { name: { ...text, description: 'Of the file, with its extension.' } },
      required: ['name'],
    },
    outputSchema: {
      type: 'object',
      properties: { method: text, url: text, expiresAt: text, maxBytes: { type: 'integer' } },
      required: ['method', 'url', 'expiresAt', 'maxBytes'],
    },
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  }
}
