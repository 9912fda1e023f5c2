import type { ContentBlock, InputRequest, Result } from '@modelcontextprotocol/server'
import { randomUUID } from 'node:crypto'

/** The first revision without sessions. */
export const MODERN_REVISION = '2026-07-28'
/** Revision of a client that names none (specification 2025-11-25, "Protocol Version Header"). */
export const DEFAULT_REVISION = '2025-03-26'
/** The first revision with choices in forms: several at once, and with titles. */
const WITH_CHOICES = '2025-11-25'
/** The first revision with links to resources in the results of tools. */
const WITH_LINKS = '2025-06-18'

export function isModern(revision: string): boolean {
  return revision >= MODERN_REVISION
}

export function hasFormChoices(revision: string): boolean {
  return revision >= WITH_CHOICES
}

/**
 * Returns a result in the form that clients of a revision understand. The clients of the oldest revisions refuse a
 * whole result because of one content block that they do not know.
 */
export function resultForRevision(result: Result, revision: string): Result {
  if (isModern(revision)) return result
  const { ttlMs, cacheScope, ...older } = result
  const shown = ttlMs === undefined && cacheScope === undefined ? result : older
  const { content } = shown
  if (revision >= WITH_LINKS || !isContent(content) || !content.some(isLink)) return shown
  return { ...shown, content: content.map(toTextBlock) }
}

/** Returns a question in the form of the revisions with sessions: a page needs an id there. */
export function questionForSession(request: InputRequest): InputRequest {
  if (request.method !== 'elicitation/create') return request
  const { params } = request
  if (params.mode !== 'url') return { ...request, params: { ...params, mode: 'form' } }
  return { ...request, params: { ...params, elicitationId: randomUUID() } }
}

type Link = Extract<ContentBlock, { type: 'resource_link' }>

function isContent(value: unknown): value is readonly ContentBlock[] {
  return Array.isArray(value)
}

function isLink(block: ContentBlock): block is Link {
  return block.type === 'resource_link'
}

function toTextBlock(block: ContentBlock): ContentBlock {
  if (!isLink(block)) return block
  const { name, description, uri } = block
  const facts = description === undefined ? '' : ` (${description})`
  return { type: 'text', text: `File "${name}"${facts}: ${uri}` }
}
