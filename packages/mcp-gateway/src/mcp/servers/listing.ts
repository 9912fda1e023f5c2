import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'

import type { Principal } from '../../internal/principal.ts'
import type { SignedCursors } from '../../internal/signed-cursor.ts'

export interface ListPage<Entry> {
  readonly entries: readonly Entry[]
  readonly nextCursor?: string | undefined
}

export interface PageRequest {
  /** `tools`, `prompts` */
  readonly list: string
  readonly principal: Principal
  readonly cursor: string | undefined
  readonly pageSize: number
}

/**
 * One page of a list that is sorted by name. A cursor is the name it goes on after, so that a list which
 * changes meanwhile neither repeats nor loses what stayed.
 *
 * @throws ProtocolError -32602 for a cursor that was not given out for this list and this caller
 */
export function pageOf<Entry extends { readonly name: string }>(
  all: readonly Entry[],
  cursors: SignedCursors,
  { list, principal, cursor, pageSize }: PageRequest,
): ListPage<Entry> {
  if (cursor === undefined && all.length <= pageSize) return { entries: all }
  const owner = `${list}\0${principal.id}`
  const after = cursor === undefined ? '' : cursors.open(owner, cursor)
  if (after === undefined) {
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Not a cursor of this list')
  }
  const rest = all.filter(({ name }) => name > after)
  const entries = rest.slice(0, pageSize)
  const last = entries.at(-1)
  if (!last || rest.length <= pageSize) return { entries }
  return { entries, nextCursor: cursors.seal(owner, last.name) }
}
