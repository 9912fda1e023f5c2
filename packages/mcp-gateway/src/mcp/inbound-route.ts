import {
  classifyInboundRequest,
  type InboundClassificationOutcome,
} from '@modelcontextprotocol/server'

/**
 * What a POST is, by its headers and its body together: with the classifier of the SDK's own handler, so that the two
 * never disagree.
 *
 * @param body parsed
 */
export function inboundRoute(
  { method, headers }: Request,
  body: unknown,
): InboundClassificationOutcome {
  const version = headers.get('mcp-protocol-version')
  const mcpMethod = headers.get('mcp-method')
  const name = headers.get('mcp-name')
  return classifyInboundRequest({
    httpMethod: method,
    ...(version !== null && { protocolVersionHeader: version }),
    ...(mcpMethod !== null && { mcpMethodHeader: mcpMethod }),
    ...(name !== null && { mcpNameHeader: name }),
    body,
  })
}
