import { hash } from 'node:crypto'

import type { Principal } from '../internal/principal.ts'
import { subnetOf } from '../internal/principal.ts'

/** Who reads or writes artifacts. */
export interface ArtifactCaller {
  readonly principal: Principal
  /** Of the session, for callers without a name that have one: made by `newScopeId` when the session begins. */
  readonly scope?: string | undefined
  /** Of the network. Callers without a name are counted by it. @default all of them are counted as one */
  readonly address?: string | undefined
}

/**
 * To whom a scope belongs: to a principal; to the one session that was told its id at its beginning; or,
 * where there is neither, to whoever has its id.
 */
export type ScopeOwner =
  | { readonly kind: 'principal'; readonly key: string }
  | { readonly kind: 'session' }
  | { readonly kind: 'holder' }

/** Stands for a principal in keys: of one length, and tells nobody who it is. */
export function principalKey(principal: Principal): string {
  return `p-${hashOf(`principal\0${principal.id}`)}`
}

/** Whether the caller may read and write this scope. Fails closed. */
export function ownsScope(caller: ArtifactCaller, scope: string, owner: ScopeOwner): boolean {
  switch (owner.kind) {
    case 'principal':
      return !caller.principal.isAnonymous && owner.key === principalKey(caller.principal)
    case 'session':
      return caller.principal.isAnonymous && caller.scope === scope
    case 'holder':
      return true
  }
}

/** Under what the artifacts of a scope are listed. */
export function listKey(scope: string, owner: ScopeOwner): string {
  return owner.kind === 'principal' ? owner.key : `s-${scope}`
}

/** Under what a caller's bytes are counted. */
export function accountOf({ principal, address }: ArtifactCaller): string {
  if (!principal.isAnonymous) return principalKey(principal)
  if (address === undefined) return `a-${hashOf(`principal\0${principal.id}`)}`
  return `a-${hashOf(`address\0${subnetOf(address)}`)}`
}

function hashOf(text: string): string {
  return hash('sha256', text).slice(0, 32)
}
