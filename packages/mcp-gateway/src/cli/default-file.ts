/** Of the folder in which a command is started. */
export const DEFAULT_FILE = 'gateway.yaml'
