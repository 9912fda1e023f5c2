/**
 * Variables that the SDK does not inherit: the locations of certificate authorities for Node, OpenSSL, Python and curl.
 * None of them is a secret.
 */
const INHERITED = [
  'CURL_CA_BUNDLE',
  'NODE_EXTRA_CA_CERTS',
  'NODE_USE_SYSTEM_CA',
  'REQUESTS_CA_BUNDLE',
  'SSL_CERT_DIR',
  'SSL_CERT_FILE',
]

/**
 * Locations that programs on Windows expect: without them, `npx` starts no program, `ssh` exits in silence, and Docker and
 * browsers are not found. The names of the SDK are included, because it looks for `PATH` where a worker thread has `Path`.
 */
const INHERITED_ON_WINDOWS = [
  'APPDATA',
  'COMPUTERNAME',
  'COMSPEC',
  'HOMEDRIVE',
  'HOMEPATH',
  'LOCALAPPDATA',
  'PATH',
  'PATHEXT',
  'PROCESSOR_ARCHITECTURE',
  'PROGRAMDATA',
  'PROGRAMFILES',
  'PROGRAMFILES(X86)',
  'PROGRAMW6432',
  'SYSTEMDRIVE',
  'SYSTEMROOT',
  'TEMP',
  'TMP',
  'USERNAME',
  'USERPROFILE',
  'WINDIR',
]

/**
 * Returns the variables that a server gets beside those that the SDK inherits: some of this process, and those of its
 * configuration. Other tokens of this process do not reach the server.
 */
export function addedVariables(
  env: Readonly<Record<string, string>>,
  parent: Pick<NodeJS.Process, 'env' | 'platform'> = process,
): Record<string, string> {
  const isWindows = parent.platform === 'win32'
  // Windows ignores the case of names. Two spellings of one name would reach the server as the first of them.
  const folded = (name: string): string => (isWindows ? name.toUpperCase() : name)
  const own = new Map(Object.entries(parent.env).map(([name, value]) => [folded(name), value]))
  const added: Record<string, string> = {}
  for (const name of isWindows ? [...INHERITED, ...INHERITED_ON_WINDOWS] : INHERITED) {
    const value = own.get(name)
    if (value !== undefined) added[name] = value
  }
  for (const [name, value] of Object.entries(env)) added[folded(name)] = value
  return added
}
