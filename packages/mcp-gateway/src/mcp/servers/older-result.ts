import type {
  CallToolResult,
  ContentBlock,
  Server,
  ServerContext,
} from '@modelcontextprotocol/server'

/** The first revision whose clients know links to resources. */
const WITH_LINKS = '2025-06-18'
/** What a client speaks that says nothing of it (specification 2025-11-25, "Protocol Version Header"). */
const UNSAID = '2025-03-26'

/** A result as clients of the oldest revisions take it: for one block that they do not know they refuse all of it. */
export function resultForClient(
  result: CallToolResult,
  server: Server,
  { mcpReq, http }: ServerContext,
): CallToolResult {
  if (mcpReq.envelope !== undefined || !result.content.some(isLink)) return result
  const said = http?.req?.headers.get('mcp-protocol-version') ?? UNSAID
  const revision = server.getNegotiatedProtocolVersion() ?? said
  return revision >= WITH_LINKS ? result : { ...result, content: result.content.map(withoutLink) }
}

type Link = Extract<ContentBlock, { type: 'resource_link' }>

function isLink(block: ContentBlock): block is Link {
  return block.type === 'resource_link'
}

function withoutLink(block: ContentBlock): ContentBlock {
  if (!isLink(block)) return block
  const { name, description, uri } = block
  const facts = description === undefined ? '' : ` (${description})`
  return { type: 'text', text: `File "${name}"${facts}: ${uri}` }
}
