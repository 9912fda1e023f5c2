/** Asking a server is waiting for it, and takes a socket: with fewer, many slow ones add up. */
const MAX_REMOTE = 64

/** A server that is started here takes the machine itself. */
const MAX_LOCAL = 8

/** How many servers of a kind are asked for their tools at the same time. */
export function parallelLists({ isLocal }: { readonly isLocal: boolean }): number {
  return isLocal ? MAX_LOCAL : MAX_REMOTE
}
