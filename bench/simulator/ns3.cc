// The dumbbell of ours.c in ns-3: the same rates, delays, queue, senders and starts; prints the same.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/nix-vector-routing-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace
{

uint64_t hops;

void
CountHop(Ptr<const Packet>)
{
    hops++;
}

NetDeviceContainer
Connect(Ptr<Node> a, Ptr<Node> b, uint64_t rateBps, uint64_t delayMs, uint32_t limitPackets)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rateBps)));
    link.SetChannelAttribute("Delay", TimeValue(MilliSeconds(delayMs)));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(QueueSize(PACKETS, limitPackets)));
    NetDeviceContainer devices = link.Install(a, b);
    for (uint32_t i = 0; i < devices.GetN(); i++)
        devices.Get(i)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&CountHop));
    return devices;
}

} // namespace

int
main(int count, char** word)
{
    if (count != 4)
        return 2;
    const uint32_t flows = std::strtoul(word[1], nullptr, 10), segmentBytes = 1448, bufferBytes = 16 << 20;
    const uint64_t rateBps = std::strtoull(word[2], nullptr, 10) * 1000000, accessBps = 1000000000;
    const uint32_t queuePackets = rateBps / 8 * 8 / 100 / 1500, many = 1 << 20;
    const double seconds = std::strtod(word[3], nullptr);
    std::clock_t began = std::clock();

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpLinuxReno::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segmentBytes));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(bufferBytes));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(bufferBytes));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));

    NodeContainer left, right, routers;
    left.Create(flows);
    right.Create(flows);
    routers.Create(2);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.SetRoutingHelper(Ipv4NixVectorHelper());
    stack.Install(left);
    stack.Install(right);
    stack.Install(routers);

    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    TrafficControlHelper disciplines;
    auto connect = [&](Ptr<Node> a, Ptr<Node> b, uint64_t linkBps, uint64_t delayMs, uint32_t limit) {
        NetDeviceContainer devices = Connect(a, b, linkBps, delayMs, limit);
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        disciplines.Uninstall(devices); // only the devices' queues
        addresses.NewNetwork();
        return interfaces.GetAddress(1);
    };
    // As in ours.c the way back has no limit: ACKs never fill so long a queue.
    connect(routers.Get(0), routers.Get(1), rateBps, 20, queuePackets);
    ApplicationContainer sinks;
    for (uint32_t i = 0; i < flows; i++)
    {
        const uint16_t port = 5001;
        connect(left.Get(i), routers.Get(0), accessBps, 5, many);
        Ipv4Address address = connect(routers.Get(1), right.Get(i), accessBps, 5, many);
        BulkSendHelper sender("ns3::TcpSocketFactory", InetSocketAddress(address, port));
        sender.SetAttribute("SendSize", UintegerValue(65536));
        sender.Install(left.Get(i)).Start(MilliSeconds(i % 100));
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        sinks.Add(sink.Install(right.Get(i)));
    }
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    const double cpuS = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < sinks.GetN(); i++)
        bytes += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
    std::printf("%llu %.6f %.3f\n", static_cast<unsigned long long>(hops), cpuS, 8e-6 * bytes / seconds);
    Simulator::Destroy();
    return 0;
}
