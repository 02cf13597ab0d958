# As the official image does: KAFKA_NODE_ID=1 is the property node.id=1; the data is formatted where it is new.
set -eu
properties=/tmp/server.properties
env | grep '^KAFKA_' | grep -v -e '^KAFKA_HEAP_OPTS' | while IFS='=' read -r name value; do
  echo "$(echo "${name#KAFKA_}" | tr 'A-Z_' 'a-z.')=$value"
done > "$properties"
export CLASSPATH='/opt/kafka/libs/*'
java kafka.tools.StorageTool format --ignore-formatted \
  -t "${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}" -c "$properties"
exec java ${KAFKA_HEAP_OPTS:-} -XX:TieredStopAtLevel=1 kafka.Kafka "$properties"
