type Variables = Readonly<Record<string, string | undefined>>

export interface ChildEnvironmentOptions {
  readonly platform: NodeJS.Platform
  /** What this process has. Only the few variables that a program cannot do without are taken from it. */
  readonly inherited: Variables
  /** In the order in which they are laid over each other: the last one wins. */
  readonly added: readonly Variables[]
}

/** Where the certificate authorities are that Node, OpenSSL, Python and curl trust. Paths and switches, no secrets. */
const CERTIFICATES = [
  'CURL_CA_BUNDLE',
  'NODE_EXTRA_CA_CERTS',
  'NODE_USE_SYSTEM_CA',
  'REQUESTS_CA_BUNDLE',
  'SSL_CERT_DIR',
  'SSL_CERT_FILE',
]
const INHERITED_POSIX = ['HOME', 'LOGNAME', 'PATH', 'SHELL', 'TERM', 'USER', ...CERTIFICATES]
const INHERITED_WINDOWS = [
  ...CERTIFICATES,
  'APPDATA',
  'COMSPEC',
  'HOMEDRIVE',
  'HOMEPATH',
  'LOCALAPPDATA',
  'PATH',
  'PATHEXT',
  'PROCESSOR_ARCHITECTURE',
  'PROGRAMFILES',
  'SYSTEMDRIVE',
  'SYSTEMROOT',
  'TEMP',
  'USERNAME',
  'USERPROFILE',
]

/**
 * The environment of a child: an allow list, and what was added to it. A new object; nothing is changed in
 * the given ones. Tokens that this process holds do not get into a server that was not given them.
 */
export function childEnvironment(options: ChildEnvironmentOptions): Record<string, string> {
  const { platform, inherited, added } = options
  const environment: Record<string, string> = {}
  const set = (name: string, value: string | undefined): void => {
    if (value === undefined) return
    const known = nameIn(environment, name, platform)
    if (known !== undefined) delete environment[known] // on Windows `Path` is `PATH`
    environment[name] = value
  }
  for (const name of platform === 'win32' ? INHERITED_WINDOWS : INHERITED_POSIX) {
    const value = valueIn(inherited, name, platform)
    if (value?.startsWith('()') !== true) set(name, value) // a function that bash exports is code
  }
  for (const variables of added) {
    for (const [name, value] of Object.entries(variables)) set(name, value)
  }
  return environment
}

/** A variable by its name, which has no case on Windows. */
export function valueIn(
  variables: Variables,
  name: string,
  platform: NodeJS.Platform,
): string | undefined {
  const known = nameIn(variables, name, platform)
  return known === undefined ? undefined : variables[known]
}

function nameIn(variables: Variables, name: string, platform: NodeJS.Platform): string | undefined {
  if (Object.hasOwn(variables, name)) return name
  if (platform !== 'win32') return undefined
  const wanted = name.toUpperCase()
  return Object.keys(variables).find((known) => known.toUpperCase() === wanted)
}
