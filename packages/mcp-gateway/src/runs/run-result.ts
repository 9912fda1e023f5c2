import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/server'

import type { RunFailure } from './run-failure.ts'

/** What a run gave, as it goes into its result. */
export interface RunAnswer {
  readonly runId: string
  /** All of it, once. */
  readonly text: string
  readonly structured?: Readonly<Record<string, unknown>> | undefined
  /** Of its files, in order. */
  readonly blocks: readonly ContentBlock[]
  /** What the caller has to know besides: files that could not be kept. */
  readonly notes?: readonly string[] | undefined
}

/** Of an agent that says nothing and makes nothing: an empty result is read as a fault by some clients. */
export const NO_OUTPUT = 'The agent finished without output.'

/** Text first, then blocks in order. Structured content is there as text too, for clients that know none. */
export function resultOf(answer: RunAnswer): CallToolResult {
  const { runId, text, structured, blocks, notes = [] } = answer
  const content: ContentBlock[] = []
  if (text !== '') content.push({ type: 'text', text })
  if (structured !== undefined) {
    const json = JSON.stringify(structured)
    if (!isSameJson(text, json)) content.push({ type: 'text', text: json })
  }
  content.push(...blocks)
  for (const note of notes) content.push({ type: 'text', text: note })
  if (content.length === 0) content.push({ type: 'text', text: NO_OUTPUT })
  return {
    content,
    ...(structured !== undefined && { structuredContent: { ...structured } }),
    _meta: { runId },
  }
}

/** An error that the model can read and act on. */
export function failureResult(failure: RunFailure, runId: string): CallToolResult {
  const { message, reason, retryAfterMs } = failure
  return {
    content: [{ type: 'text', text: `${message} (${runId})` }],
    isError: true,
    _meta: { reason, runId, ...(retryAfterMs !== undefined && { retryAfterMs }) },
  }
}

function isSameJson(text: string, json: string): boolean {
  if (text === json) return true
  if (!text.startsWith('{') && !text.startsWith('```')) return false
  try {
    return JSON.stringify(JSON.parse(text)) === json
  } catch {
    return false
  }
}
