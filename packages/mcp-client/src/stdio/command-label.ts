import { win32 } from 'node:path'

/** How messages name a server that is a program: without its folder, and without arguments, which may be secrets. */
export function commandLabel(command: string): string {
  return win32.basename(command) // takes both kinds of slashes
}
