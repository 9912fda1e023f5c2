import {
  ProtocolError,
  ProtocolErrorCode,
  type GetPromptRequest,
  type GetPromptResult,
  type ListPromptsRequest,
  type ListPromptsResult,
  type ListToolsRequest,
  type ListToolsResult,
  type ServerContext,
} from '@modelcontextprotocol/server'

import { mayUse } from '../../internal/principal.ts'
import { promptContentOf } from '../../tools/skill-prompts.ts'
import { listPrompts as promptsFor, listTools as toolsFor } from '../../tools/visibility.ts'
import { pageOf } from './listing.ts'
import type { ServerParts } from './server-parts.ts'

/** Answers `tools/list`, for this caller. */
export function listTools(
  { callers, cursors, lists, registry }: ServerParts,
  request: ListToolsRequest,
  context: ServerContext,
): ListToolsResult {
  const { principal } = callers.of(context)
  const page = pageOf(toolsFor(registry.plan(), principal), cursors, {
    list: 'tools',
    principal,
    cursor: request.params?.cursor,
    pageSize: lists.pageSize,
  })
  const tools = [...page.entries]
  return page.nextCursor === undefined ? { tools } : { tools, nextCursor: page.nextCursor }
}

/** Answers `prompts/list`, for this caller. */
export function listPrompts(
  { callers, cursors, lists, registry }: ServerParts,
  request: ListPromptsRequest,
  context: ServerContext,
): ListPromptsResult {
  const { principal } = callers.of(context)
  const page = pageOf(promptsFor(registry.plan(), principal), cursors, {
    list: 'prompts',
    principal,
    cursor: request.params?.cursor,
    pageSize: lists.pageSize,
  })
  const prompts = [...page.entries]
  return page.nextCursor === undefined ? { prompts } : { prompts, nextCursor: page.nextCursor }
}

/** Answers `prompts/get`. @throws ProtocolError -32602 for a name that no prompt has, as far as this caller may know */
export function getPrompt(
  { callers, registry }: ServerParts,
  { params: { name } }: GetPromptRequest,
  context: ServerContext,
): GetPromptResult {
  const prompt = registry.plan().promptByName(name)
  if (!prompt || !mayUse(callers.of(context).principal, prompt)) {
    const message = `Unknown prompt: ${name.slice(0, 128)}`
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, message)
  }
  const { description, messages } = promptContentOf(prompt)
  return { description, messages: [...messages] }
}
